import type { agentRoutes, Route } from '@slipway/protocol'

type AgentRoutes = typeof agentRoutes
export type RouteName = keyof AgentRoutes

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
export type CallInput<N extends RouteName> = Part<AgentRoutes[N], 'params'> &
  Part<AgentRoutes[N], 'query'> &
  Part<AgentRoutes[N], 'body'> & {
    readonly headers?: Readonly<Record<string, string>>
    readonly signal?: AbortSignal | undefined
  }

type Success<R extends Route> = R['responses'][Extract<keyof R['responses'], 200 | 201>]

/** What a successful call answers. Routes without a JSON schema answer text. */
export type CallOutput<N extends RouteName> =
  Success<AgentRoutes[N]> extends { readonly schema: infer S } ? Before<S> : string
