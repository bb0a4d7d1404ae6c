import { hash, timingSafeEqual } from 'node:crypto'
import {
  cookieValues,
  createApp,
  type Listening,
  listen,
  listenOnLoopback,
  type ProxyRequest,
  type Reply,
  unixSocketUrl,
} from '@slipway/http'
import { type LogFunction, Problem } from '@slipway/protocol'
import type { Secret } from '@slipway/shared/redaction'

interface EditorGateOptions {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  /** The path below which the editor is shown, or empty. */
  readonly basePath: string
  /** Opens the editor, as `tkn` in its address. */
  readonly token: Secret
  /** Of the editor. */
  readonly socketPath: string
  /** What the editor expects before its paths. */
  readonly targetPath: string
  readonly allowedOrigins: readonly (string | RegExp)[]
  readonly log: LogFunction
}

/** Opens the gate at its address; for 127.0.0.1 also at ::1, because the address says `localhost`. */
export async function openEditorGates(options: EditorGateOptions): Promise<Listening> {
  if (options.host !== '127.0.0.1') return await openEditorGate(options)
  return await listenOnLoopback((address) => openEditorGate({ ...options, ...address }), options.port)
}

/**
 * Listens at an address of the editor and forwards requests to its Unix socket. The address with the token
 * sets a cookie and leads to the same address without it; every other request needs the cookie, and a
 * WebSocket a page of this address.
 */
async function openEditorGate(options: EditorGateOptions): Promise<Listening> {
  const { host, basePath, token, allowedOrigins, log } = options
  const isToken = (text: string) => timingSafeEqual(hash('sha256', text, 'buffer'), digest)
  const digest = hash('sha256', token.reveal(), 'buffer')
  let { port } = options
  // Browsers share cookies between the ports of a host.
  const cookieName = () => `slipway_editor_${port}`
  const editorUrl = unixSocketUrl(options.socketPath) + options.targetPath
  const app = createApp(
    {},
    {},
    {
      keys: [token],
      // The cookie that opens it belongs to one name.
      isOwnHost: () => true,
      allowedOrigins,
      log,
      audit: () => {},
      proxyRoutes: [
        {
          prefix: basePath,
          answer: ({ method, query, header }) => {
            const parameters = new URLSearchParams(query)
            const found = method === 'GET' ? parameters.get('tkn') : null
            if (found === null) return undefined
            if (!isToken(found))
              throw new Problem(
                'forbidden',
                'This address of the editor is no longer valid; ask for it again',
              )
            parameters.delete('tkn')
            const isSecure = header('x-forwarded-proto') === 'https'
            return signIn(`${cookieName()}=${found}; Path=${basePath || '/'}`, isSecure, parameters)
          },
          target: async ({ header }) => {
            const cookies = header('cookie')
            if (!cookieValues(cookies, cookieName()).some(isToken))
              throw new Problem('unauthorized', 'Open the editor at the address that the agent server tells')
            return { url: editorUrl, headers: { cookie: withoutCookie(cookies, cookieName()) } }
          },
        },
      ],
    },
  )
  const listening = await listen(app, { host, port })
  port = listening.port
  return listening
}

/** Leads to the same address without the token. */
function signIn(cookie: string, isSecure: boolean, parameters: URLSearchParams): Reply {
  return {
    status: 302,
    bytes: Buffer.alloc(0),
    headers: {
      // Relative to the path of the request, whatever it is.
      location: `?${parameters}`,
      'set-cookie': `${cookie}; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`,
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
    },
  }
}

/** The editor must not see the token. */
function withoutCookie(header: ReturnType<ProxyRequest['header']>, name: string): string | undefined {
  const others = (header ?? '').split(/; */).filter((pair) => !pair.startsWith(`${name}=`))
  return others.join('; ') || undefined
}
