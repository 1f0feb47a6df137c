// Package page has the find server's page looked at by a real browser: Debian's chromium, driven by chromedp, and axe-core,
// which knows the rules of accessible pages.
package page
