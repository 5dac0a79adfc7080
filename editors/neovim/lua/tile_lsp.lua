-- tile-lsp for Neovim 0.7 and newer: starts the server, keeps lenses fresh, shows results as virtual text and lowered code in a split.
local M = {}

local NAME = 'tile_lsp'
local MARKERS = { 'tile-lsp.toml', 'pyproject.toml', 'setup.py', '.git' }
local results = vim.api.nvim_create_namespace('tile_lsp_results')
local linked = vim.api.nvim_create_namespace('tile_lsp_linked')
local options = { cmd = { 'tile-lsp', 'serve' }, settings = {}, keys = true }
local views = {} -- buffer of lowered code -> { source = buffer, lines = {{first, last, source line}, ...} }

local function clients(bufnr)
  if vim.lsp.get_clients then return vim.lsp.get_clients({ bufnr = bufnr, name = NAME }) end
  return vim.tbl_filter(function(c) return c.name == NAME end, vim.tbl_values(vim.lsp.buf_get_clients(bufnr)))
end

--- The client of a buffer; tells the user when there is none.
local function client_of(bufnr)
  local client = clients(bufnr)[1]
  if not client then vim.notify('tile-lsp is not running for this buffer', vim.log.levels.WARN) end
  return client
end

local function request(client, method, params, bufnr, handler)
  if vim.fn.has('nvim-0.11') == 1 then return client:request(method, params, handler, bufnr) end
  return client.request(method, params, handler, bufnr)
end

local function root_of(file)
  local folder = vim.fn.fnamemodify(file, ':p:h')
  local at = folder
  while at ~= '/' and at ~= '' do
    for _, marker in ipairs(MARKERS) do
      if vim.fn.empty(vim.fn.glob(at .. '/' .. marker)) == 0 then return at end
    end
    local above = vim.fn.fnamemodify(at, ':h')
    if above == at then break end
    at = above
  end
  return folder
end

-- results as virtual text -----------------------------------------------------------------------------------------------------
--- Show a run's summary behind the line of the kernel's name.
local function show_results(bufnr)
  local client = clients(bufnr)[1]
  if not client then return end
  request(client, 'textDocument/codeLens', { textDocument = vim.lsp.util.make_text_document_params(bufnr) }, bufnr, function(err, lenses)
    if err or not vim.api.nvim_buf_is_valid(bufnr) then return end
    vim.api.nvim_buf_clear_namespace(bufnr, results, 0, -1)
    for _, lens in ipairs(lenses or {}) do
      local title = lens.command and lens.command.title or ''
      local good = vim.startswith(title, '✓')
      if good or vim.startswith(title, '✗') or vim.startswith(title, '…') then
        local group = good and 'DiagnosticHint' or vim.startswith(title, '✗') and 'DiagnosticError' or 'DiagnosticInfo'
        local line = math.min(lens.range.start.line, vim.api.nvim_buf_line_count(bufnr) - 1)
        vim.api.nvim_buf_set_extmark(bufnr, results, line, 0, { virt_text = { { '  ' .. title, group } }, virt_text_pos = 'eol' })
      end
    end
  end)
end

local function refresh(bufnr)
  if not vim.api.nvim_buf_is_valid(bufnr) then return end
  if vim.lsp.codelens.enable then -- Neovim >= 0.12 keeps lenses fresh itself
    pcall(vim.lsp.codelens.enable, true, { bufnr = bufnr })
  elseif vim.fn.has('nvim-0.8') == 1 then
    vim.lsp.codelens.refresh({ bufnr = bufnr })
  else
    vim.api.nvim_buf_call(bufnr, vim.lsp.codelens.refresh)
  end
  show_results(bufnr)
end

-- kernels and commands --------------------------------------------------------------------------------------------------------
--- Calls `done` with the kernel at the cursor, or the only one of the buffer.
local function with_kernel(done)
  local bufnr = vim.api.nvim_get_current_buf()
  local client = client_of(bufnr)
  if not client then return end
  local line = vim.api.nvim_win_get_cursor(0)[1]
  local uri = vim.uri_from_bufnr(bufnr)
  request(client, 'tile-lsp/kernels', { uri = uri }, bufnr, function(_, kernels)
    kernels = kernels or {}
    local found = #kernels == 1 and kernels[1] or nil
    for _, k in ipairs(kernels) do
      if k.first <= line and line <= k.last and (not found or k.first >= found.first) then found = k end
    end
    if not found then return vim.notify('there is no TileLang kernel at the cursor', vim.log.levels.WARN) end
    done(client, bufnr, { uri = uri, kernel = found.kernel, line = line }, found)
  end)
end

local function execute(client, bufnr, command, arguments, done)
  request(client, 'workspace/executeCommand', { command = command, arguments = { arguments } }, bufnr, function(err, reply)
    if err then return vim.notify(err.message or tostring(err), vim.log.levels.ERROR) end
    if done then done(reply) end
  end)
end

function M.run() with_kernel(function(client, bufnr, a) execute(client, bufnr, 'tile-lsp.run', a, function() refresh(bufnr) end) end) end

function M.compare() with_kernel(function(client, bufnr, a) execute(client, bufnr, 'tile-lsp.compare', a, function() refresh(bufnr) end) end) end

function M.choose_instance()
  with_kernel(function(client, bufnr, a, kernel)
    vim.ui.select(kernel.instances, { prompt = 'Instance of ' .. kernel.name }, function(text)
      if not text then return end
      execute(client, bufnr, 'tile-lsp.chooseInstance', vim.tbl_extend('force', a, { text = text }), function() refresh(bufnr) end)
    end)
  end)
end

-- lowered code in a split, marked both ways -----------------------------------------------------------------------------------
local function mark(bufnr, first, last)
  for line = math.max(first - 1, 0), math.min(last, vim.api.nvim_buf_line_count(bufnr)) - 1 do
    vim.api.nvim_buf_set_extmark(bufnr, linked, line, 0, { end_row = line + 1, end_col = 0, hl_group = 'Visual', hl_eol = true, strict = false })
  end
end

local function window_of(bufnr)
  local window = vim.fn.bufwinid(bufnr)
  return window ~= -1 and window or nil
end

--- Mark in both buffers of a pair what belongs to the cursor's line of the current one.
local function follow()
  local here = vim.api.nvim_get_current_buf()
  local line = vim.api.nvim_win_get_cursor(0)[1]
  for lowered, view in pairs(views) do
    if vim.api.nvim_buf_is_valid(lowered) and vim.api.nvim_buf_is_valid(view.source) and (here == lowered or here == view.source) then
      vim.api.nvim_buf_clear_namespace(lowered, linked, 0, -1)
      vim.api.nvim_buf_clear_namespace(view.source, linked, 0, -1)
      local other
      for _, run in ipairs(view.lines) do
        local hit = here == lowered and run[1] <= line and line <= run[2] or here == view.source and run[3] == line
        if hit then
          mark(lowered, run[1], run[2])
          mark(view.source, run[3], run[3])
          other = other or (here == lowered and run[3] or run[1])
        end
      end
      local window = other and window_of(here == lowered and view.source or lowered)
      if window then pcall(vim.api.nvim_win_set_cursor, window, { other, 0 }) end
    end
  end
end

local TYPES = { cuda = 'cuda', ptx = 'asm', sass = 'asm' }

function M.lowered(stage)
  stage = stage and stage ~= '' and stage or 'cuda'
  with_kernel(function(client, bufnr, a)
    execute(client, bufnr, 'tile-lsp.showLowered', vim.tbl_extend('force', a, { stage = stage }), function(reply)
      if not reply or reply.error or not reply.text then return end
      local source = vim.fn.bufwinid(bufnr)
      vim.cmd('rightbelow vnew')
      local made = vim.api.nvim_get_current_buf()
      vim.api.nvim_buf_set_lines(made, 0, -1, false, vim.split(reply.text, '\n', { plain = true }))
      pcall(vim.api.nvim_buf_set_name, made, 'tile-lsp://' .. a.kernel .. '.' .. (reply.target or '') .. '.' .. stage .. '.' .. made)
      for name, value in pairs({ buftype = 'nofile', bufhidden = 'wipe', swapfile = false, modifiable = false, filetype = TYPES[stage] or 'python' }) do
        vim.bo[made][name] = value
      end
      views[made] = { source = bufnr, lines = reply.lines or {} }
      pcall(vim.api.nvim_win_set_cursor, 0, { reply.line or 1, 0 })
      if source ~= -1 then vim.api.nvim_set_current_win(source) end
      follow()
    end)
  end)
end

-- setting up --------------------------------------------------------------------------------------------------------------------
local function attached(bufnr)
  local group = vim.api.nvim_create_augroup('tile_lsp_' .. bufnr, { clear = true })
  vim.api.nvim_create_autocmd({ 'BufEnter', 'CursorHold', 'InsertLeave' }, { group = group, buffer = bufnr, callback = function() refresh(bufnr) end })
  if not options.keys then return end
  local function map(keys, does, what) vim.keymap.set('n', keys, does, { buffer = bufnr, desc = 'TileLang: ' .. what }) end
  map('<leader>tr', M.run, 'run the kernel')
  map('<leader>tc', M.compare, 'compare the kernel')
  map('<leader>tl', function() M.lowered('cuda') end, 'show the CUDA')
  map('<leader>ts', function()
    vim.ui.select({ 'tile', 'legalized', 'thread', 'host', 'device', 'cuda', 'ptx', 'sass' }, { prompt = 'Stage' }, function(s) if s then M.lowered(s) end end)
  end, 'show a stage')
  map('<leader>ti', M.choose_instance, 'choose the instance')
  map('<leader>ta', vim.lsp.codelens.run, 'click a lens')
end

--- Start the server for a buffer, or use the one that runs for its project.
function M.start(bufnr)
  bufnr = bufnr or vim.api.nvim_get_current_buf()
  local file = vim.api.nvim_buf_get_name(bufnr)
  if file == '' or vim.bo[bufnr].buftype ~= '' then return end
  -- The lowered text is shown by this plugin, in a buffer of its own: the server need not write files.
  local config = { name = NAME, cmd = options.cmd, root_dir = root_of(file), on_attach = function(_, b) attached(b) end,
    init_options = vim.tbl_extend('force', { virtualDocuments = true }, options.settings),
    handlers = { ['tile-lsp/ran'] = function(_, params) refresh(vim.uri_to_bufnr(params.uri)) end,
      ['workspace/codeLens/refresh'] = function() refresh(vim.api.nvim_get_current_buf()) return vim.NIL end } }
  if vim.lsp.start then return vim.lsp.start(config, { bufnr = bufnr }) end
  for _, client in ipairs(vim.lsp.get_active_clients()) do -- Neovim 0.7
    if client.name == NAME and client.config.root_dir == config.root_dir then return vim.lsp.buf_attach_client(bufnr, client.id) end
  end
  local id = vim.lsp.start_client(config)
  if id then vim.lsp.buf_attach_client(bufnr, id) end
end

function M.stop()
  for _, client in ipairs((vim.lsp.get_clients or vim.lsp.get_active_clients)()) do
    if client.name == NAME then
      if vim.fn.has('nvim-0.11') == 1 then client:stop() else client.stop() end
    end
  end
end

function M.setup(given)
  options = vim.tbl_deep_extend('force', options, given or {})
  local group = vim.api.nvim_create_augroup('tile_lsp', { clear = true })
  vim.api.nvim_create_autocmd('FileType', { group = group, pattern = 'python', callback = function(event) M.start(event.buf) end })
  vim.api.nvim_create_autocmd('CursorMoved', { group = group, callback = follow })
  vim.api.nvim_create_autocmd('BufWipeout', { group = group, callback = function(event) views[event.buf] = nil end })
  local command = vim.api.nvim_create_user_command
  command('TileRun', M.run, { desc = 'Run the kernel at the cursor' })
  command('TileCompare', M.compare, { desc = 'Compare the kernel at the cursor' })
  command('TileInstance', M.choose_instance, { desc = 'Choose the instance of the kernel' })
  command('TileLowered', function(c) M.lowered(c.args) end, { nargs = '?', desc = 'Show lowered code',
    complete = function() return { 'tile', 'legalized', 'thread', 'host', 'device', 'cuda', 'ptx', 'sass' } end })
  command('TileStop', M.stop, { desc = 'Stop the server' })
  if vim.bo.filetype == 'python' then M.start() end
end

return M
