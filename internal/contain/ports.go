package contain

import "strconv"

// Ports are TCP ports in a row for the servers of those who work in a folder. The zero value means
// none.
type Ports struct{ First, Count int }

// Variables that name the ports of a folder.
const (
	PortVariable  = "SIGNALBOX_PORT"
	PortsVariable = "SIGNALBOX_PORTS"
)

// usePorts tells the program its ports. If it may use only some TCP ports, it may also use these.
func (b *builder) usePorts(p Ports) {
	if p.Count == 0 {
		return
	}
	b.p.Env = append(b.p.Env, PortVariable+"="+strconv.Itoa(p.First), PortsVariable+"="+
		strconv.Itoa(p.Count))
	if network := &b.p.Policy.Network; len(network.Ports) > 0 {
		for i := range p.Count {
			network.Ports = append(network.Ports, uint16(p.First+i))
		}
	}
}
