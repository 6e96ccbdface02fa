// Package selfsigned creates certificates for servers without any: a self-signed one, or a small
// authority with certificates for a server and its administrator. It is for first steps and tests;
// use real certificates otherwise.
package selfsigned
