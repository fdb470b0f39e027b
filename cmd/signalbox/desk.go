package main

import (
	"cmp"
	"os"
	"path/filepath"

	"signalbox/internal/config"
	"signalbox/internal/portfolio"
)

// portfolioVariable is the environment variable with the portfolio's folder.
const portfolioVariable = "SIGNALBOX_PORTFOLIO"

// dataFlag is the flag of every command that uses a portfolio.
type dataFlag struct {
	Data nonEmpty `name:"data" placeholder:"DIR" help:"The folder of the portfolio. Default: SIGNALBOX_PORTFOLIO, or else the current folder or its subfolder portfolio, whichever has portfolio.yaml."`
}

// desk returns the desk of the portfolio. It saves full results in the folder logs of the box, or of the current folder if there is no box.
func (p *program) desk(f dataFlag, b boxFlag) *portfolio.Desk {
	logs := "logs"
	if dir, err := p.findBox(b); err == nil {
		logs = filepath.Join(dir, "logs")
	}
	return portfolio.NewDesk(p.portfolioFolder(f), &portfolio.Options{Logs: logs})
}

func (p *program) portfolioFolder(f dataFlag) string {
	if dir := cmp.Or(string(f.Data), p.getenv(portfolioVariable)); dir != "" {
		return dir
	}
	for _, dir := range []string{".", portfolioName} {
		if _, err := os.Stat(filepath.Join(dir, config.PortfolioFile)); err == nil {
			return dir
		}
	}
	return "."
}

// portfolioName is the default folder of portfolio init, which the other commands look for.
const portfolioName = "portfolio"
