import type { agentServerRoutes, Route, sandboxServerRoutes } from '@slipway/protocol'

type AgentServerRoutes = typeof agentServerRoutes
type SandboxServerRoutes = typeof sandboxServerRoutes
export type RouteName = keyof AgentServerRoutes

/** What a schema takes, that is, the value before parsing: moments are texts, numbers may be left out. */
type SchemaInput<S> = S extends { readonly _zod: { readonly input: infer I } } ? I : never

/** What a schema gives, that is, the value after parsing. */
type SchemaOutput<S> = S extends { readonly _zod: { readonly output: infer O } } ? O : never

/** A number or a switch that is a text in an address. */
type PlainValue<O> = [NonNullable<O>] extends [number | boolean] ? NonNullable<O> : never

/** Moments, such as `timestamp__gte`, are texts before parsing and bounds after it. */
type TimeBound = `${string}__${string}` | 'at'

/** Members of a query may be numbers and switches: the client writes them as texts. */
type QueryInput<S, O = SchemaOutput<S>> = {
  readonly [K in keyof SchemaInput<S>]:
    | SchemaInput<S>[K]
    | (K extends Exclude<keyof O, TimeBound> ? PlainValue<O[K]> : never)
}

type PartInput<S, K> = K extends 'query' ? QueryInput<S> : SchemaInput<S>

type InputPart<R extends Route, K extends 'params' | 'query' | 'body'> = K extends keyof R
  ? undefined extends SchemaInput<R[K]>
    ? { readonly [P in K]?: SchemaInput<R[K]> }
    : Record<string, never> extends SchemaInput<R[K]>
      ? { readonly [P in K]?: PartInput<R[K], K> }
      : { readonly [P in K]: PartInput<R[K], K> }
  : unknown

/** The input of a call: path parameters, query and JSON body, as far as the route has them. */
export type RouteInput<R extends Route> = InputPart<R, 'params'> &
  InputPart<R, 'query'> &
  InputPart<R, 'body'> & {
    readonly headers?: Readonly<Record<string, string>>
    readonly signal?: AbortSignal | undefined
  }

/**
 * The arguments of a call after its name: none are needed where nothing of the input is required.
 */
export type CallArguments<R extends Route> =
  Record<string, never> extends RouteInput<R> ? [input?: RouteInput<R>] : [input: RouteInput<R>]

/** The keys of an object with a spread are texts. */
type SuccessStatus = 200 | 201 | '200' | '201'
type SuccessResponse<R extends Route> = R['responses'][Extract<keyof R['responses'], SuccessStatus>]

/** What a successful call answers. Routes without a JSON schema answer text. */
export type RouteOutput<R extends Route> =
  SuccessResponse<R> extends { readonly schema: infer S } ? SchemaInput<S> : string

/** By the name of a route of the agent server. */
export type CallInput<N extends RouteName> = RouteInput<AgentServerRoutes[N]>
export type CallOutput<N extends RouteName> = RouteOutput<AgentServerRoutes[N]>

/** By the name of a route of the sandbox server. */
export type SandboxServerInput<N extends keyof SandboxServerRoutes> = RouteInput<SandboxServerRoutes[N]>
