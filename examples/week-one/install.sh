# Installs what the tests need into tools, as npm ci or pip install would.
mkdir -p tools
cat >tools/same <<'END'
#!/bin/sh
test "$1" = "$2" || { echo "got '$1', want '$2'"; exit 1; }
END
chmod +x tools/same
