#!/usr/bin/env bash
# Installs a real VS Code (code-server) and a headless Chromium with nothing but apt-get and npm.
# Usage: install-code-server.sh [PREFIX]      (default PREFIX: .editors in the checkout)
# Nothing is compiled: without its native modules VS Code writes its logs to the console instead of files and has no terminal, and code-server
# knows no passwords; the tests need none of it. NATIVE=1 compiles them (a minute more, and a compiler from Debian).
# Afterwards: node PREFIX/code-server/node_modules/code-server/out/node/entry.js --version
# May be run again at any time: it does nothing when that version is already built for this Node.
set -euo pipefail
VERSION=4.100.3                                   # VS Code 1.100.3; engines.node is 20
here=$(cd "$(dirname "$0")" && pwd)
prefix=${1:-$here/../../.editors}
mkdir -p "$prefix"; prefix=$(cd "$prefix" && pwd)
root=$prefix/code-server

# 1. Debian's packages: ripgrep, the browser and a font; a compiler only if the native modules are wanted.
packages=(ripgrep chromium fonts-dejavu-core)
[ -z "${NATIVE:-}" ] || packages+=(g++ make python3)
"$here/install-debian.sh" "${packages[@]}"

# 2. Node 20; with its headers where something is compiled (node-gyp would download them).
major=$(node -p 'process.versions.node.split(".")[0]')
[ "$major" = 20 ] || { echo "code-server $VERSION needs Node 20, this is $(node -v)" >&2; exit 1; }
nodedir=$(dirname "$(dirname "$(readlink -f "$(command -v node)")")")
[ -z "${NATIVE:-}" ] || [ -f "$nodedir/include/node/node_api.h" ] || { echo "no Node headers in $nodedir/include/node" >&2; exit 1; }
stamp=$root/.ready; want="$VERSION node-abi-$(node -p process.versions.modules)${NATIVE:+ native}"
have=$(cat "$stamp" 2>/dev/null || true)
if [ "$have" = "$want" ] || [ "$have" = "$want native" ]; then echo "code-server $VERSION is there"; exit 0; fi

# 3. The packages themselves, without their install scripts (those download). VS Code's are locked by code-server's own
#    npm-shrinkwrap.json; --legacy-peer-deps, or npm ci says that tslib is missing from the lock. The built-in extensions are bundled;
#    only the one for TypeScript would need a package of its own.
rm -rf "$root"; mkdir -p "$root"
export npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false npm_config_prefer_offline=true
echo '{"private":true}' > "$root/package.json"
npm install --prefix "$root" --ignore-scripts "code-server@$VERSION"
cs=$root/node_modules/code-server
vs=$cs/lib/vscode
(cd "$vs" && npm ci --omit=dev --ignore-scripts --legacy-peer-deps)

# 4. The native modules. (kerberos is loaded only for a proxy that asks for it and the windows-* ones never; @parcel/watcher comes prebuilt
#    as an npm package.)
if [ -n "${NATIVE:-}" ]; then
  gyp=$(npm root -g)/npm/node_modules/node-gyp/bin/node-gyp.js
  build() { (cd "$1" && node "$gyp" rebuild --nodedir="$nodedir" --jobs max > build.log 2>&1) || { tail -40 "$1/build.log" >&2; exit 1; }; }
  for m in @vscode/spdlog native-watchdog node-pty; do build "$vs/node_modules/$m"; done
  (cd "$root/node_modules/argon2" && npm_config_node_gyp=$gyp node ../@mapbox/node-pre-gyp/bin/node-pre-gyp \
    install --build-from-source --nodedir="$nodedir" > build.log 2>&1) || { tail -40 "$root/node_modules/argon2/build.log" >&2; exit 1; }
else                                              # the only one that code-server does not start without
  cat > "$root/node_modules/argon2/argon2.js" << 'end'
const refused = async () => { throw new Error('argon2 was not compiled: start code-server with --auth none'); };
module.exports = { hash: refused, verify: refused };
end
fi

# 5. What the skipped scripts would have laid down: ripgrep's binary and three links (see code-server's postinstall.sh).
mkdir -p "$vs/node_modules/@vscode/ripgrep/bin"
ln -sfn /usr/bin/rg "$vs/node_modules/@vscode/ripgrep/bin/rg"
ln -sfn node_modules "$vs/node_modules.asar"
ln -sfn code-linux.sh "$vs/bin/remote-cli/code-server"
ln -sfn browser-linux.sh "$vs/bin/helpers/browser.sh"

# 6. Does it start at all? (--config: or it writes one under the home folder.)
printf 'auth: none\ncert: false\n' > "$root/config.yaml"
node "$cs/out/node/entry.js" --config "$root/config.yaml" --version
echo "$want" > "$stamp"
