package embednats

import "time"

// Pings returns the settings by which the server notices connections that hang.
func (s *Server) Pings() (interval time.Duration, most int, write time.Duration) {
	v, err := s.server.Varz(nil)
	if err != nil {
		return 0, 0, 0
	}
	return v.PingInterval, v.MaxPingsOut, v.WriteDeadline
}
