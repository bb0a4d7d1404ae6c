import type { OpenAIProvider } from '@ai-sdk/openai'

/** The types of the model library that this folder speaks; nothing is loaded by this file. */
export type SdkModel = ReturnType<OpenAIProvider['chat']>
export type SdkCallOptions = Parameters<SdkModel['doStream']>[0]
export type SdkPrompt = SdkCallOptions['prompt']
export type SdkMessage = SdkPrompt[number]
export type SdkStreamPart =
  Awaited<ReturnType<SdkModel['doStream']>>['stream'] extends ReadableStream<infer P> ? P : never
export type SdkFinish = Extract<SdkStreamPart, { type: 'finish' }>
export type SdkMetadata = NonNullable<SdkFinish['providerMetadata']>
export type ProviderOptions = NonNullable<SdkCallOptions['providerOptions']>
