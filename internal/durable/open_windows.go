package durable

// nonblock is not needed: here no file has pipes or devices in its place.
const nonblock = 0
