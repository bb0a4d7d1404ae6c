/**
 * The models that clients offer first (`verified` on the wire), by provider, the best first. They are made
 * for agents that call tools. Other models work as well.
 */
export const verifiedModels: Readonly<Record<string, readonly string[]>> = {
  anthropic: [
    'claude-sonnet-5',
    'claude-opus-5-5',
    'claude-opus-4-8',
    'claude-sonnet-4-6',
    'claude-haiku-4-5',
  ],
  openai: ['gpt-5.5', 'gpt-5.4', 'gpt-5.3-codex', 'gpt-5.2', 'gpt-5.4-mini'],
  gemini: ['gemini-3.1-pro-preview', 'gemini-3.8-flash', 'gemini-2.5-pro'],
  deepseek: ['deepseek-v4-pro', 'deepseek-chat'],
  mistral: ['devstral-2512', 'mistral-medium-3-5'],
  xai: ['grok-4.6', 'grok-code-fast-1'],
}
