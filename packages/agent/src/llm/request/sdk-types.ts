import type { OpenAIProvider } from '@ai-sdk/openai'

/** Types of the model library; loads nothing. */
export type SdkModel = ReturnType<OpenAIProvider['chat']>
export type SdkCallOptions = Parameters<SdkModel['doStream']>[0]
/** A tool that the provider runs. */
export type ProviderTool = Extract<NonNullable<SdkCallOptions['tools']>[number], { type: 'provider' }>
export type SdkPrompt = SdkCallOptions['prompt']
export type SdkMessage = SdkPrompt[number]
export type SdkStreamPart =
  Awaited<ReturnType<SdkModel['doStream']>>['stream'] extends ReadableStream<infer P> ? P : never
export type SdkFinish = Extract<SdkStreamPart, { type: 'finish' }>
export type SdkMetadata = NonNullable<SdkFinish['providerMetadata']>
export type ProviderOptions = NonNullable<SdkCallOptions['providerOptions']>
