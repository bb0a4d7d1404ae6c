/** The label of a model is its provider; no text of a user's settings is a label. */
const providers: ReadonlySet<string> = new Set([
  'anthropic',
  'azure',
  'bedrock',
  'deepseek',
  'gemini',
  'google',
  'groq',
  'hosted_vllm',
  'litellm_proxy',
  'lm_studio',
  'mistral',
  'ollama',
  'ollama_chat',
  'openai',
  'openai_like',
  'openrouter',
  'scripted',
  'vllm',
  'xai',
])

/** The provider of a model, from a closed set. */
export function modelProvider(model: string): string {
  const prefix = model.slice(0, Math.max(0, model.indexOf('/')))
  return providers.has(prefix) ? prefix : 'other'
}
