import { type IncomingMessage, request } from 'node:http'

export interface WireResponse<T = unknown> {
  readonly status: number
  /** Parsed JSON where the content type is JSON, otherwise text. */
  readonly body: T
  readonly type: string
  readonly headers: Headers
}

export interface RequestOptions {
  readonly body?: unknown
  readonly query?: Readonly<Record<string, string>> | string
  readonly headers?: Readonly<Record<string, string>>
  /** Without the key. */
  readonly isAnonymous?: boolean
}

/** A JSON object of which a case reads some members. */
export type Json = Readonly<Record<string, unknown>>

/** The requests of existing clients to one server. */
export class WireClient {
  /** Without a slash at the end. */
  url: string
  readonly key: string | undefined

  constructor(url: string, key: string | undefined) {
    this.url = url
    this.key = key
  }

  get headers(): Record<string, string> {
    return this.key === undefined ? {} : { 'x-session-api-key': this.key }
  }

  /**
   * Sends a request like the published clients: with a JSON content type also without a body; parses the
   * reply by its content type.
   */
  async request<T = unknown>(
    method: string,
    path: string,
    options: RequestOptions = {},
  ): Promise<WireResponse<T>> {
    const { body, query, headers, isAnonymous = false } = options
    const search =
      query === undefined ? '' : `?${typeof query === 'string' ? query : new URLSearchParams(query)}`
    const isForm = body instanceof FormData
    const response = await fetch(`${this.url}${path}${search}`, {
      method,
      headers: {
        ...(isForm ? {} : { 'content-type': 'application/json' }),
        ...(isAnonymous ? {} : this.headers),
        ...headers,
      },
      redirect: 'manual',
      ...(body === undefined
        ? {}
        : { body: isForm || typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const type = response.headers.get('content-type') ?? ''
    const text = await response.text()
    const value = type.includes('application/json') ? JSON.parse(text) : text
    return { status: response.status, body: value, type, headers: response.headers }
  }

  /** A GET with a JSON body, which fetch does not send. */
  async getWithBody(path: string, value: unknown): Promise<{ status: number; body: unknown }> {
    const content = JSON.stringify(value)
    const headers = {
      ...this.headers,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(content),
    }
    const response = await new Promise<IncomingMessage>((done, fail) => {
      const call = request(`${this.url}${path}`, { method: 'GET', headers }, done)
      call.on('error', fail)
      call.end(content)
    })
    const chunks: Buffer[] = []
    for await (const chunk of response) chunks.push(chunk)
    return { status: response.statusCode ?? 0, body: JSON.parse(Buffer.concat(chunks).toString()) }
  }

  /** The body of a reply; throws when the status is not 2xx. */
  async requestOrThrow<T = Json>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
    const { status, body } = await this.request<T>(method, path, options)
    if (status < 200 || status > 299) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(body)}`)
    return body
  }

  async requestStatus(method: string, path: string, options: RequestOptions = {}): Promise<number> {
    return (await this.request(method, path, options)).status
  }

  /** The output of a command on the server's machine; throws when it fails. */
  async runCommand(command: string): Promise<string> {
    const body = await this.requestOrThrow<{
      exit_code: number
      stdout: string | null
      stderr: string | null
    }>('POST', '/api/bash/execute_bash_command', { body: { command, timeout: 50 } })
    if (body.exit_code !== 0) throw new Error(`${command}: ${body.exit_code} ${body.stderr}`)
    return body.stdout ?? ''
  }

  upload(path: string, content: string | Uint8Array<ArrayBuffer>): Promise<WireResponse> {
    const body = new FormData()
    body.append('file', new Blob([content]), 'any')
    return this.request('POST', '/api/file/upload', { query: { path }, body })
  }
}
