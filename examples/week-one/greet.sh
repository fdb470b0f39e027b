# Greets the person that the first argument names.
echo "Hello, ${1:-world}."
