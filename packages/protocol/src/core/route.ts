import type * as z from 'zod'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** One answer of a route: a schema of JSON, or the content types of bytes that are not described further. */
export interface RouteResponse {
  readonly description: string
  readonly schema?: z.ZodType
  readonly contentType?: string | readonly string[]
  /** What its headers say, by name. */
  readonly headers?: Readonly<Record<string, string>>
}

/** What a request is about in the audit. */
export interface AuditTarget {
  readonly target: AuditTargetType
  /**
   * The member of the path, or else of the body, with its id or name. Absent: it is what the request creates,
   * or of the caller.
   */
  readonly id?: string
}

export const auditTargetTypes = [
  'user',
  'key',
  'organization',
  'quota',
  'budget',
  'budget_request',
  'sandbox',
  'conversation',
  'secret',
  'git_providers',
  'profile',
  'settings',
  'consent',
] as const
type AuditTargetType = (typeof auditTargetTypes)[number]

/** What a key of an agent server may do that is no session key. */
export const keyScopes = ['read', 'act', 'answer'] as const
export type KeyScope = (typeof keyScopes)[number]

/**
 * One operation: the source of validation, OpenAPI, handler type and client call. Unknown query parameters
 * are ignored; unknown body members depend on the body schema.
 */
export interface Route {
  readonly method: Method
  /** With braces: `/api/conversations/{conversation_id}`; a final `{path*}` matches slashes too. */
  readonly path: string
  readonly tag: string
  readonly summary: string
  readonly description?: string
  /**
   * Whose key opens it, on a server with users: of a user with the scope `read` or `write` by its method
   * (`operate`: with `write` for its own things or `operate` for those of others), of an administrator with
   * the scope `admin` (`server`: whose key is bound to no organisation; `organization`: or as `user`, of a
   * member whose role in the organisation allows it), or of a sandbox.
   */
  readonly access?: 'user' | 'operate' | 'organization' | 'admin' | 'server' | 'sandbox'
  /**
   * The scope of the keys that open it besides session keys, on an agent server; without one none do. `any`:
   * each of them, and the handler holds the key to the routes that it calls.
   */
  readonly scope?: KeyScope | 'any'
  /** Needs no session key. Its body is at most 4 KiB long, unless `maxBodyBytes` says otherwise. */
  readonly open?: true
  /**
   * With keys configured: pages of any origin may call (`key`); a credential in the address or a cookie may
   * replace the key (`pass`).
   */
  readonly pages?: 'key' | 'pass'
  /** The session key may also come as `Authorization: Bearer`. */
  readonly bearer?: true
  /** Not in the OpenAPI document: for the control plane of a sandbox, not for clients. */
  readonly unlisted?: true
  /** Errors have a member `error` besides, in the form of OpenAI's interface (wire 1.22). */
  readonly errors?: 'openai'
  /**
   * Whether requests are audited, and what about; by default those of methods that change something. Set for
   * a GET that shows secrets. Each route of the sandbox server that changes something declares it.
   */
  readonly audit?: boolean | AuditTarget
  readonly params?: z.ZodObject
  readonly query?: z.ZodObject
  /** The optional headers that the handler reads, by name, with their meaning. */
  readonly headers?: Readonly<Record<string, string>>
  /** JSON body, parsed and validated; an absent or empty body is `undefined` to the schema. */
  readonly body?: z.ZodType
  /** Longest JSON body, where that is not the limit of the server. */
  readonly maxBodyBytes?: number
  /** A body that works, for the page of the API: otherwise it shows one of placeholders. */
  readonly example?: unknown
  /** The body has this content type and reaches the handler as a stream. */
  readonly stream?: string
  /** The body is a multipart form; its member `file` reaches the handler as a stream. */
  readonly upload?: true
  /**
   * Its JSON is compressed from 8 KiB on, for clients on other machines that ask for it. Not for an answer
   * that may hold secrets: its length would tell of them.
   */
  readonly compressed?: true
  /** By status. 401, 403, 413 and other common refusals are added for each route by `openapi.ts`. */
  readonly responses: Readonly<Record<number, RouteResponse>>
}

export type RouteTable = Readonly<Record<string, Route>>

/** A route without method and path; its own tag takes precedence over that of the table. */
type RouteOptions = Omit<Route, 'method' | 'path' | 'tag'> & { readonly tag?: string }
/** A misspelled option does not compile. */
type OnlyOptions<R> = { readonly [K in Exclude<keyof R, keyof RouteOptions>]: never }

function forMethod<M extends Method>(method: M) {
  return <const R extends RouteOptions>(path: string, options: R & OnlyOptions<R>) => ({
    ...(options as R),
    method,
    path,
  })
}

/** Declares an operation: `route.get('/api/tools', { summary, responses })`. */
export const route = {
  get: forMethod('GET'),
  post: forMethod('POST'),
  put: forMethod('PUT'),
  patch: forMethod('PATCH'),
  delete: forMethod('DELETE'),
}

/** The routes of a table, in order, with the tag and the access that they share. */
export function defineRoutes<const T extends Readonly<Record<string, Omit<Route, 'tag'>>>>(
  tag: string,
  routes: T,
  common: Pick<Route, 'access'> = {},
): { readonly [N in keyof T]: T[N] & { readonly tag: string } } {
  const tagged = Object.entries(routes).map(([name, untagged]) => [name, { tag, ...common, ...untagged }])
  return Object.fromEntries(tagged) as { [N in keyof T]: T[N] & { tag: string } }
}

type SchemaOutput<S> = S extends z.ZodType ? z.output<S> : undefined
export type RouteParams<R extends Route> = SchemaOutput<R['params']>
export type RouteQuery<R extends Route> = SchemaOutput<R['query']>
export type RouteBody<R extends Route> = SchemaOutput<R['body']>
