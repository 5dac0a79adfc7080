#!/usr/bin/env bash
# Installs Debian's Emacs without a window system, and eglot (part of Emacs itself from 29 on).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
packages=(emacs-nox)
apt-cache show elpa-eglot > /dev/null 2>&1 && packages+=(elpa-eglot)
"$here/install-debian.sh" "${packages[@]}"
emacs --version | head -1
