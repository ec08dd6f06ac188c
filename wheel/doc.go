// Package wheel holds entries in memory until they are due, and gives them back in order.
package wheel
