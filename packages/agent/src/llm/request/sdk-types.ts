import type { OpenAIProvider } from '@ai-sdk/openai'

/** The types of the model library that this folder speaks; nothing is loaded by this file. */
export type SdkModel = ReturnType<OpenAIProvider['chat']>
export type CallOptions = Parameters<SdkModel['doStream']>[0]
export type Prompt = CallOptions['prompt']
export type SdkMessage = Prompt[number]
export type SdkPart =
  Awaited<ReturnType<SdkModel['doStream']>>['stream'] extends ReadableStream<infer P> ? P : never
export type Finish = Extract<SdkPart, { type: 'finish' }>
export type Metadata = NonNullable<Finish['providerMetadata']>
export type ProviderOptions = NonNullable<CallOptions['providerOptions']>
