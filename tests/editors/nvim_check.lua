-- Real Neovim, headless: diagnostics, hover with CUDA, code lenses, a run and its result.
-- Usage: SERVER_CMD="tile-lsp serve" timeout 120 nvim --clean --headless -n FILE -S nvim_check.lua
-- Uses the plugin of editors/neovim, with Neovim 0.7.2 (Debian 12) as well as 0.11.

-- Exit status: 0 when every check passed, 1 otherwise.
local NAME = 'tile_lsp'
local TIMEOUT = 60000
local messages = {}

local function say(s) io.stdout:write(s .. '\n') end
local function wait(what, fn)
  local value
  local ok = vim.wait(TIMEOUT, function() value = fn(); return value end, 50)
  assert(ok, 'timed out waiting for ' .. what)
  return value
end

local function start(bufnr)
  local cmd = vim.split(assert(os.getenv('SERVER_CMD'), 'SERVER_CMD is not set'), ' ', { plain = true })
  vim.opt.runtimepath:append(assert(os.getenv('NEOVIM_CONFIG'), 'NEOVIM_CONFIG is not set'))  -- editors/neovim, as users have it
  vim.g.mapleader = ' '
  require('tile_lsp').setup({ cmd = cmd, settings = { runTarget = 'cpu' } })
  return wait('the client', function()
    for _, c in ipairs((vim.lsp.get_clients or vim.lsp.get_active_clients)()) do
      if c.name == NAME and vim.lsp.buf_is_attached(bufnr, c.id) then return c end
    end
  end)
end

local function line_of(bufnr, text)
  for i, l in ipairs(vim.api.nvim_buf_get_lines(bufnr, 0, -1, false)) do
    local column = l:find(text, 1, true)
    if column then return i, column - 1 end
  end
  error(text .. ' is not in the buffer')
end

local function diagnostics(bufnr, wanted)
  return wait(wanted .. ' diagnostics', function()
    local d = vim.diagnostic.get(bufnr)
    return #d == wanted and d or nil
  end)
end

local function float_text()
  for _, win in ipairs(vim.api.nvim_list_wins()) do
    if vim.api.nvim_win_get_config(win).relative ~= '' then
      return table.concat(vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(win), 0, -1, false), '\n'), win
    end
  end
end

local function check_diagnostics(bufnr)
  local row = line_of(bufnr, 'T.clear(C_local)')
  local good = vim.api.nvim_buf_get_lines(bufnr, row - 1, row, false)[1]
  vim.api.nvim_buf_set_lines(bufnr, row - 1, row, false, { (good:gsub('T.clear', 'T.cleer')) })
  local d = diagnostics(bufnr, 1)[1]
  assert(d.code == 'TL101', tostring(d.code) .. ' ' .. d.message)
  assert(d.lnum == row - 1, 'line ' .. d.lnum)
  say('diagnostic: ' .. d.code .. ' ' .. d.message)
  vim.api.nvim_buf_set_lines(bufnr, row - 1, row, false, { good })
  diagnostics(bufnr, 0)
  say('diagnostic gone after the repair')
end

local function check_hover(bufnr)
  local row, column = line_of(bufnr, 'T.gemm')
  local text
  for _ = 1, 6 do                                          -- the first hovers may come while the compiler starts
    vim.api.nvim_win_set_cursor(0, { row, column + 3 })
    vim.lsp.buf.hover()
    text = wait('the hover window', float_text)
    local _, win = float_text()
    vim.api.nvim_win_close(win, true)
    if text:find('CUDA', 1, true) then break end
  end
  assert(text:find('lowers to', 1, true), 'hover text: ' .. text)
  assert(text:find('mma', 1, true), 'hover text: ' .. text)
  say('hover: ' .. text:match('lowers to[^\n]*'))
end

local function refresh(bufnr)
  if vim.fn.has('nvim-0.8') == 1 then vim.lsp.codelens.refresh({ bufnr = bufnr }) else vim.lsp.codelens.refresh() end
end

local function lens_titles(bufnr)
  local titles = {}
  for _, lens in ipairs(vim.lsp.codelens.get(bufnr)) do
    if lens.command then table.insert(titles, lens.command.title) end
  end
  return table.concat(titles, ' | ')
end

local function marks_of(bufnr, namespace)
  local ns = vim.api.nvim_get_namespaces()[namespace]
  local found = {}
  for _, m in ipairs(ns and vim.api.nvim_buf_get_extmarks(bufnr, ns, 0, -1, { details = true }) or {}) do
    for _, p in ipairs(m[4].virt_text or {}) do table.insert(found, p[1]) end
  end
  return table.concat(found, '|')
end

local function check_lenses(bufnr)
  refresh(bufnr)
  wait('code lenses', function() return lens_titles(bufnr):find('▶ Run', 1, true) end)
  local shown = wait('the virtual text', function()
    for name, ns in pairs(vim.api.nvim_get_namespaces()) do
      if name:find('codelens', 1, true) then
        for _, m in ipairs(vim.api.nvim_buf_get_extmarks(bufnr, ns, 0, -1, { details = true })) do
          local pieces = vim.tbl_map(function(p) return p[1] end, m[4].virt_text or {})
          local text = table.concat(pieces)
          if text:find('Run', 1, true) then return text end
        end
      end
    end
  end)
  say('code lenses: ' .. shown)
  vim.ui.select = function(items, _, choose) choose(items[1], 1) end   -- several lenses on the line: the first is Run
  local row = line_of(bufnr, 'def matmul')
  vim.api.nvim_win_set_cursor(0, { row, 0 })
  vim.lsp.codelens.run()
  local said = wait('the result', function()
    for _, m in ipairs(messages) do if m:find('max err', 1, true) then return m end end
  end)
  say('message: ' .. said)
  local result = wait('the result in the lens', function()
    refresh(bufnr)
    return lens_titles(bufnr):match('✓ max err [^|]*')
  end)
  say('lens: ' .. result)
  local shown_result = wait('the result as virtual text', function() return marks_of(bufnr, 'tile_lsp_results'):match('✓ max err [^|]*') end)
  say('virtual text: ' .. shown_result)
end

local function check_lowered(bufnr)
  local row = line_of(bufnr, 'T.gemm')
  local source = vim.api.nvim_get_current_win()
  vim.api.nvim_win_set_cursor(source, { row, 20 })
  vim.cmd('TileLowered cuda')
  local lowered = wait('the split', function()
    for _, w in ipairs(vim.api.nvim_list_wins()) do
      local b = vim.api.nvim_win_get_buf(w)
      if vim.bo[b].filetype == 'cuda' then return b end
    end
  end)
  local window = vim.fn.bufwinid(lowered)
  assert(table.concat(vim.api.nvim_buf_get_lines(lowered, 0, -1, false), '\n'):find('__global__', 1, true), 'no CUDA in the split')
  assert(not vim.bo[lowered].modifiable, 'lowered code can be edited')
  local function linked_lines(b)
    local found = {}
    for _, m in ipairs(vim.api.nvim_buf_get_extmarks(b, vim.api.nvim_get_namespaces().tile_lsp_linked, 0, -1, {})) do table.insert(found, m[2] + 1) end
    return found
  end
  local lines = wait('marked lines of the CUDA', function() local l = linked_lines(lowered) return #l > 0 and l or nil end)
  local text = {}
  for _, n in ipairs(lines) do table.insert(text, vim.api.nvim_buf_get_lines(lowered, n - 1, n, false)[1]) end
  assert(table.concat(text, '\n'):find('mma', 1, true), table.concat(text, '\n'))
  say(#lines .. ' lines of the CUDA belong to T.gemm')
  vim.api.nvim_set_current_win(window)
  local copy = line_of(bufnr, 'T.copy(C_local')
  local target = 1
  for n = vim.api.nvim_buf_line_count(lowered), 1, -1 do                    -- some line that came from the last copy
    vim.api.nvim_win_set_cursor(window, { n, 0 })
    vim.api.nvim_exec_autocmds('CursorMoved', {})
    if linked_lines(bufnr)[1] == copy then target = nil break end
  end
  assert(target == nil, 'no line of the CUDA leads back to the last copy')
  assert(vim.api.nvim_win_get_cursor(source)[1] == copy, 'the source does not follow')
  say('and back: the source follows the cursor in the CUDA')
  vim.api.nvim_set_current_win(source)
end

local function check()
  local v = vim.version()
  say(('Neovim %d.%d.%d'):format(v.major, v.minor, v.patch))
  local bufnr = vim.api.nvim_get_current_buf()
  assert(vim.bo[bufnr].filetype == 'python', 'filetype is ' .. vim.bo[bufnr].filetype)
  vim.lsp.handlers['window/showMessage'] = function(_, params) table.insert(messages, params.message) end
  local client = start(bufnr)
  wait('initialize', function() return client.initialized and client.server_capabilities end)
  say('server started, attached')
  check_diagnostics(bufnr)
  check_hover(bufnr)
  check_lenses(bufnr)
  check_lowered(bufnr)
  if vim.fn.has('nvim-0.11') == 1 then client:stop() else client.stop() end
  wait('the server to end', function()
    return vim.fn.has('nvim-0.11') == 1 and client:is_stopped() or vim.fn.has('nvim-0.11') == 0 and client.is_stopped()
  end)
  say('server stopped')
end

-- After start-up only: before VimEnter, vim.lsp.enable() does not attach to a file that is already open.
vim.api.nvim_create_autocmd('VimEnter', { once = true, callback = function()
  vim.schedule(function()
    local ok, err = xpcall(check, debug.traceback)
    if ok then
      say('PASS')
      vim.cmd('qall!')
    else
      say('FAIL ' .. tostring(err))
      vim.cmd('cquit 1')
    end
  end)
end })
