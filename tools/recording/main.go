// Command recording runs the first act of the demo and writes what it shows as a
// picture that moves, docs/demo.svg: one text that scrolls up, a line at a time, as it
// came on the screen. Long waits are cut short. It needs what the demo needs.
package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"time"
)

func main() {
	if err := run("docs/demo.svg"); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	demo := exec.Command("go", "run", "./tools/demo", "-acts", "1", "-plain")
	demo.Stderr = os.Stderr
	out, err := demo.StdoutPipe()
	if err != nil {
		return err
	}
	if err := demo.Start(); err != nil {
		return err
	}
	var r recording
	begun := time.Now()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Println(lines.Text())
		r.add(time.Since(begun), lines.Text())
	}
	if err := demo.Wait(); err != nil {
		return fmt.Errorf("the demo: %w; %s stays as it is", err, path)
	}
	return os.WriteFile(path, []byte(r.svg()), 0o644)
}
