package cli

import (
	"cmp"
	"os"
	"path/filepath"

	"signalbox/internal/config"
	"signalbox/internal/portfolio"
)

// portfolioVariable is the environment variable with the portfolio's folder.
const portfolioVariable = "SIGNALBOX_PORTFOLIO"

// DataFlag is the flag of every command that uses a portfolio.
type DataFlag struct {
	Data NonEmpty `name:"data" placeholder:"DIR" help:"The folder of the portfolio. Default: SIGNALBOX_PORTFOLIO, or else the current folder or its subfolder portfolio, whichever has portfolio.yaml."`
}

// Desk returns the desk of the portfolio. It saves full results in the folder logs of the box, or
// of the current folder if there is no box.
func Desk(p *Program, f DataFlag, b BoxFlag) *portfolio.Desk {
	logs := "logs"
	if dir, err := p.FindBox(b); err == nil {
		logs = filepath.Join(dir, "logs")
	}
	return portfolio.NewDesk(portfolioFolder(p, f), &portfolio.Options{Logs: logs})
}

func portfolioFolder(p *Program, f DataFlag) string {
	if dir := cmp.Or(string(f.Data), p.Getenv(portfolioVariable)); dir != "" {
		return dir
	}
	for _, dir := range []string{".", PortfolioName} {
		if _, err := os.Stat(filepath.Join(dir, config.PortfolioFile)); err == nil {
			return dir
		}
	}
	return "."
}

// PortfolioName is the default folder of portfolio init, which the other commands look for.
const PortfolioName = "portfolio"
