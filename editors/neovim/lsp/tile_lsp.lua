-- tile-lsp in Neovim >= 0.11. Put this file into ~/.config/nvim/lsp/ and say `vim.lsp.enable('tile_lsp')` in init.lua.
return {
  cmd = { 'tile-lsp', 'serve' },
  filetypes = { 'python' },
  root_markers = { 'tile-lsp.toml', 'pyproject.toml', 'setup.py', '.git' },
  init_options = {
    -- runTarget = 'cpu',           -- where kernels run: 'cpu', 'cuda', 'sm_90a' ...; default: the GPU if there is one
    -- target = 'sm_90a',           -- the chip that hovers and lowered code are for; default: the kernel's own
    -- tilelangVersion = '0.1.15',  -- default: the release found in the project's environment
    -- loweredInHover = true,       -- IR and CUDA in hovers
  },
}
