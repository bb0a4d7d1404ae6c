import type { MonitoredWork, WorkOutcome } from '@slipway/agent'
import type { Attributes, ExportedHistogram, MetricsExport } from '@slipway/http'
import { modelProvider } from './model-provider.ts'

/** Bucket boundaries of the conventions. */
const durationBuckets = [
  0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
]
const tokenBuckets = [
  1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864,
]

/** Current names of providers that differ from the prefixes of models. */
const genAiProviders: Readonly<Record<string, string>> = {
  azure: 'azure.ai.openai',
  bedrock: 'aws.bedrock',
  gemini: 'gcp.gemini',
  google: 'gcp.gemini',
  mistral: 'mistral_ai',
  xai: 'x_ai',
}

type ModelWork = Extract<MonitoredWork, { kind: 'model' }>

/** What spans and metrics of a question to a model say by the current GenAI conventions. */
export function genAiAttributes({ model }: ModelWork) {
  const provider = modelProvider(model)
  return {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': genAiProviders[provider] ?? provider,
    'gen_ai.request.model': model.slice(model.indexOf('/') + 1),
  }
}

/** The client metrics of the GenAI conventions of OpenTelemetry. */
export class GenAiMetrics {
  readonly #duration: ExportedHistogram
  readonly #tokens: ExportedHistogram

  constructor(metrics: MetricsExport) {
    this.#duration = metrics.createHistogram('gen_ai.client.operation.duration', {
      description: 'Time of questions to models, retries included.',
      unit: 's',
      buckets: durationBuckets,
    })
    this.#tokens = metrics.createHistogram('gen_ai.client.token.usage', {
      description: 'Tokens of questions to models and of their replies.',
      unit: '{token}',
      buckets: tokenBuckets,
    })
  }

  record(work: ModelWork, { outcome, isFailure, modelUsage }: WorkOutcome, seconds: number): void {
    const attributes: Attributes = genAiAttributes(work)
    this.#duration.record(seconds, isFailure ? { ...attributes, 'error.type': outcome } : attributes)
    if (modelUsage === undefined) return
    const { prompt_tokens: input, completion_tokens: output } = modelUsage.usage
    for (const [type, count] of [
      ['input', input],
      ['output', output],
    ] as const) {
      // A provider may report any number, and a negative one would stop the whole histogram.
      if (count >= 0 && Number.isFinite(count))
        this.#tokens.record(count, { ...attributes, 'gen_ai.token.type': type })
    }
  }
}
