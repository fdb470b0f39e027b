package portfolios

import (
	"signalbox/internal/cli"
	"signalbox/internal/portfolio"
)

type portfolioSimulateCommand struct {
	cli.DataFlag
	Ticker  string   `arg:"" help:"The position."`
	Shares  string   `placeholder:"N" xor:"size" help:"The number of shares. Default: the whole position, or the lots."`
	Cash    string   `placeholder:"DOLLARS" xor:"size" help:"Sell enough shares for this amount, before taxes."`
	Account string   `placeholder:"ID" help:"The account, if several accounts hold the ticker."`
	Lots    []string `name:"lot" placeholder:"LOT" xor:"lots" help:"A lot to sell, as signalbox portfolio lots names it. Repeat it for several, in their order."`
	Method  string   `placeholder:"METHOD" xor:"lots" help:"How lots are chosen: fifo, lifo, hifo or min_tax. Default: lot_method of the account."`
	Price   string   `placeholder:"DOLLARS" help:"The price per share or option contract. Default: the last price."`
	toolFlags
}

func (portfolioSimulateCommand) Help() string {
	return `Shows what a sale would do before you make it: the gain by term, which wash sales it makes, what is lost for good, from which day it is clean, until when you must not buy the ticker again, and what it does to the net of the year. With tax_rates in portfolio.yaml, also what it costs or saves. No orders are placed.

Estimates under US federal rules; not tax advice.

Examples:

    signalbox portfolio simulate SLV
    signalbox portfolio simulate SLV --shares 50 --method hifo
    signalbox portfolio simulate SLV --cash 5000 --account brk
    signalbox portfolio simulate SLV --lot 2024-03-01#1 --json`
}

func (c *portfolioSimulateCommand) Run(p *cli.Program) error {
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	return c.print(p, cli.Desk(p, c.DataFlag, cli.BoxFlag{}).SimulateSale(ctx,
		portfolio.SimulateQuery{Ticker: c.Ticker, Shares: c.Shares, Cash: c.Cash,
			AccountID: c.Account, Lots: c.Lots, Method: c.Method, Price: c.Price, AsOf: c.AsOf,
			Format: c.format(), Output: c.Output}))
}
