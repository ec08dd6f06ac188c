package main

// The authorities that browsers trust, where the system has none, as in an image that holds the program alone.
import _ "golang.org/x/crypto/x509roots/fallback"
