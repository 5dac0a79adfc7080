#!/usr/bin/env bash
# Everything that the tests in real editors need, at once: Debian's packages, code-server, Neovim, the driver of the browser, the extension.
# Usage: install.sh [PREFIX]          (default PREFIX: .editors in the checkout); what is there already is left alone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
prefix=${1:-$here/../../.editors}
mkdir -p "$prefix/logs"; prefix=$(cd "$prefix" && pwd)
names=() jobs=()
start() {   # NAME COMMAND...: in the background, what it says goes to logs/NAME.log
  names+=("$1"); local log=$prefix/logs/$1.log; shift
  "$@" > "$log" 2>&1 & jobs+=($!)
}
debian() { "$here/install-debian.sh" ripgrep chromium fonts-dejavu-core neovim emacs-nox && "$here/install-emacs.sh"; }
driver() { cd "$here" && npm install --ignore-scripts --no-package-lock --no-audit --no-fund --prefer-offline; }
extension() { cd "$here/../../vscode-extension" && npm ci --ignore-scripts --no-audit --no-fund --prefer-offline && npm run package; }
start debian debian
start code-server env DEBIAN_LATER=1 "$here/install-code-server.sh" "$prefix"
start neovim env DEBIAN_LATER=1 "$here/install-neovim.sh" "$prefix"
start driver driver
start extension extension
failed=0
for i in "${!jobs[@]}"; do
  if wait "${jobs[$i]}"; then echo "${names[$i]}: there"; else failed=1; echo "${names[$i]}: failed"; tail -40 "$prefix/logs/${names[$i]}.log"; fi
done
exit $failed
