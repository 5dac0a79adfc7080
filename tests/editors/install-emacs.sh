#!/usr/bin/env bash
# Installs Debian's Emacs without a window system, and eglot (part of Emacs itself from 29 on).
set -euo pipefail
packages=(emacs-nox)
apt-cache show elpa-eglot > /dev/null 2>&1 && packages+=(elpa-eglot)
missing=()
for p in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null || true)" = installed ] || missing+=("$p")
done
if [ ${#missing[@]} -gt 0 ]; then
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
fi
emacs --version | head -1
