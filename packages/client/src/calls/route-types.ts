import type { agentRoutes, controlRoutes, Route } from '@slipway/protocol'

type AgentRoutes = typeof agentRoutes
type ControlRoutes = typeof controlRoutes
export type RouteName = keyof AgentRoutes
export type ControlRouteName = keyof ControlRoutes

/** What a schema takes, that is, the value before parsing: moments are texts, numbers may be left out. */
type Before<S> = S extends { readonly _zod: { readonly input: infer I } } ? I : never

type Part<R extends Route, K extends 'params' | 'query' | 'body'> = K extends keyof R
  ? undefined extends Before<R[K]>
    ? { readonly [P in K]?: Before<R[K]> }
    : Record<string, never> extends Before<R[K]>
      ? { readonly [P in K]?: Before<R[K]> }
      : { readonly [P in K]: Before<R[K]> }
  : unknown

/** What a call of a route needs: its path parameters, query and JSON body, each only where the route has it. */
export type InputOf<R extends Route> = Part<R, 'params'> &
  Part<R, 'query'> &
  Part<R, 'body'> & {
    readonly headers?: Readonly<Record<string, string>>
    readonly signal?: AbortSignal | undefined
  }

type Success<R extends Route> = R['responses'][Extract<keyof R['responses'], 200 | 201>]

/** What a successful call answers. Routes without a JSON schema answer text. */
export type OutputOf<R extends Route> = Success<R> extends { readonly schema: infer S } ? Before<S> : string

/** By the name of a route of the agent server. */
export type CallInput<N extends RouteName> = InputOf<AgentRoutes[N]>
export type CallOutput<N extends RouteName> = OutputOf<AgentRoutes[N]>

/** By the name of a route of the sandbox server. */
export type ControlInput<N extends ControlRouteName> = InputOf<ControlRoutes[N]>
export type ControlOutput<N extends ControlRouteName> = OutputOf<ControlRoutes[N]>
