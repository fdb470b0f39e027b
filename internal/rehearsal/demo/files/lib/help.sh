calc_help() {
	echo "usage: calc OPERATION NUMBER..."
}
