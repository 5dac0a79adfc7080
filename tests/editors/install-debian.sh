#!/usr/bin/env bash
# Installs those of Debian's packages that are missing. Usage: install-debian.sh PACKAGE...
# DEBIAN_LATER=1: somebody else installs them meanwhile (install.sh).
set -euo pipefail
[ -z "${DEBIAN_LATER:-}" ] || exit 0
missing=()
for p in "$@"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null || true)" = installed ] || missing+=("$p")
done
[ ${#missing[@]} -gt 0 ] || exit 0
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends -o Dpkg::Options::=--force-unsafe-io "${missing[@]}"
