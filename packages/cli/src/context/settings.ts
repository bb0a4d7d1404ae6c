import { secretSetting, setting, textSetting } from '@slipway/protocol/settings'

const yes = textSetting.transform((text = '') => /^(1|true|yes|on)$/i.test(text))

// biome-ignore format: one line a setting
/** What commands themselves read. */
export const commandSettings = {
  url: setting('SLIPWAY_URL', '0.1.0', textSetting, 'Address of the agent server that commands call; `--url` overrides it.'),
  sandboxUrl: setting('SLIPWAY_SANDBOX_URL', '0.1.0', textSetting, 'Address of the sandbox server that commands call; `--url` overrides it.'),
  context: setting('SLIPWAY_CONTEXT', '0.2.0', textSetting, 'Name of the context (`slipway context`) that commands use; `--context` overrides it.'),
  configFile: setting('SLIPWAY_CONFIG', '0.2.0', textSetting, 'Path of `config.toml`.'),
  dataDirectory: setting('SLIPWAY_DATA_DIRECTORY', '0.2.0', textSetting, 'Data directory of the agent server.'),
  sessionApiKey: setting('SLIPWAY_SESSION_API_KEY', '0.1.0', secretSetting, 'Session key that commands send to the agent server; of several the first.', { isSecret: true }),
  apiKey: setting('SLIPWAY_API_KEY', '0.1.0', secretSetting, 'API key that commands send to the sandbox server; of several the first.', { isSecret: true }),
  isPlain: setting('SLIPWAY_SCREEN_READER', '0.2.0', yes, 'Print whole lines in sessions and draw nothing again.'),
}

// biome-ignore format: one line a setting
/** The model that agents are run with: `[model]` of `config.toml`. */
export const modelSettings = {
  name: setting('LLM_MODEL', '0.1.0', textSetting, 'provider/name of the model that agents are run with.'),
  base_url: setting('LLM_BASE_URL', '0.1.0', textSetting, 'Address of its API.'),
  api_key: setting('LLM_API_KEY', '0.1.0', secretSetting, 'Its API key.', { isSecret: true }),
}
