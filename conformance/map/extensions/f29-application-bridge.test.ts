import { expect } from 'vitest'
import { endFamily, missing } from '../frame.ts'
import { openMapServer } from '../map-server.ts'

const map = openMapServer()
const none = 'the bridge from pages to programs of installed applications'

missing('F29.ingress-advertised', 'the server says where the bridge is', none, async () => {
  const info = await map.requestOrThrow('GET', '/server_info')
  expect(info).toMatchObject({ app_backend_ingress_url: expect.any(String) })
})
missing('F29.ingress-config-errors', 'a server without an address for it answers 503', none, async () => {
  expect(await map.requestStatus('POST', '/app-backends/map/session')).toBe(503)
})
missing('F29.session-bootstrap', 'a key is exchanged for a cookie of one application', none)
missing('F29.session-key-required', 'nothing but the key is exchanged', none)
missing('F29.session-ingress-host', 'another host is 421', none)
missing('F29.session-forwarded-proto', 'forwarded headers do not count unless trusted', none)
missing('F29.session-origin-rules', 'origins without permission are 403', none)
missing('F29.session-configured-control-origin', 'permitted origins by name and pattern', none)
missing('F29.session-backend-not-ready', 'a program that is not ready is 503', none)
missing('F29.proxy-get', 'safe methods reach the program', none)
missing('F29.proxy-cookie-required', 'without the cookie 401', none)
missing('F29.proxy-unsafe-methods', 'other methods need the origin of the bridge', none)
missing('F29.proxy-root', 'the root in both forms', none)
missing('F29.proxy-root-path-query', 'a parameter of the name path is a parameter', none)
missing('F29.proxy-credentials-stripped', 'the program sees no credentials', none)
missing('F29.proxy-request-framing', 'the framing of bodies stays', none)
missing('F29.proxy-response-filter', 'redirects and cookies do not pass', none)
missing('F29.proxy-response-headers', 'one Date and one Server header', none)
missing('F29.proxy-path-traversal', 'paths that climb are 400', none)
missing('F29.ws-bridge', 'frames pass both ways', none)
missing('F29.ws-handshake-rejections', 'sockets without origin or cookie are 403', none)
missing('F29.ws-subprotocol', 'subprotocols are negotiated', none)
missing('F29.session-revoke', 'a revoked session closes its sockets', none)
missing('F29.backend-lifecycle-revokes', 'a stop of the program revokes its sessions', none)
missing('F29.backend-crash-detected', 'a dead program is 503 at once', none)
missing('F29.trusted-forwarded-headers', 'forwarded headers count when trusted', none)
missing('F29.sessions-not-persisted', 'sessions do not survive a restart', none)
missing('F29.session-ttl', 'sessions end after five minutes', none)
missing('F29.uninstall-revokes', 'an uninstall revokes sessions', none)

endFamily('F29', 29)
