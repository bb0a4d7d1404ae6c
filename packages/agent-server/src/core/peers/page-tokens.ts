import type { PageCredential, Request } from '@slipway/http'
import type { Problem, Route } from '@slipway/protocol'

/** The token of a request that another server with the same secret key has authorized and passes on. */
export const peerTokenHeader = 'x-slipway-peer-token'

type PageRequest = Pick<Request<Route>, 'url' | 'header' | 'peer'>

/** Tokens that admit pages instead of a session key. */
export interface PageTokens {
  /** What the request shows; a Problem for an invalid token. */
  authenticate(
    url: string,
    header: PageRequest['header'],
    peer: PageRequest['peer'],
  ): PageCredential | Problem | undefined
  /**
   * The token of a request for the server that it is passed on to, whose session keys may be others;
   * undefined without one. Throws a Problem for an invalid one.
   */
  createPeerToken(url: string, header: PageRequest['header'], peer: PageRequest['peer']): string | undefined
}
