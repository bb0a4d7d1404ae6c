import { expect, test } from 'vitest'
import { redact } from './redact.ts'
import { hidesNumbers, isSecretName } from './secret-names.ts'

const names = (text: string) => text.trim().split(/\s+/)

/** Names that the rules were written for. */
const knownSecrets = names(`
  api_key API_KEY_2 apiKeyId keyId KEYS key-1 X-API-Key tavilyapikey apikey_old Set-Cookie DB_PWD pwd pin user_pin
  bearer jwt github_pat dsn connection_string otp connectionString signature x-signature OTP_2 Authorization
  sessionId passwd PassPhrase client_secret credentials GH_TOKEN encryptedContent aws_secret_access_key
  aws_access_key_id aws_session_token AWS_SECRET_ACCESS_KEY githubPat npmToken dbPassword db.password mongoPwd
  PGPASSWORD MYSQL_PWD rootpass SMTP_PASS jwtSecret JWT-2 sentryDsn ssh_key private-key deployKey hmac salt
  Proxy-Authorization BASIC_AUTH refresh_token id_token csrf_token XSRF-TOKEN PHPSESSID JSESSIONID sshkey mykey
  monkeykey turkey_api_key secretaryPassword hockey_token apikey APIKEY licenseKey webhookSecret aPi_kEY ToKeN
  passcode psk wifi_psk cred creds accessToken bot-token signingKey signing.secret`)
const knownPlain = names(`
  custom_tokenizer tokenizer tokenizers customtokenizer sort_keys sortKey monkey monkeys donkeys spinner path
  pattern pinned PWD OLDPWD keywords keyword keyboard keyboardLayout monkeybars session_start SessionEnd author
  passage name hockey jockey whiskey turkey secretary Secretariat obsession possession hockey_team whiskey-brand
  jockeys lackey donkey keynote keystroke keyframes turnkey compass bypass trespass_sign pass_rate authority
  auth_type oauth_provider cache_dir model base_url usage_id timeout patience patch spatial compat pinboard typing
  opinion signal design assigned credits discredit bearing hotkey keyup passenger encompass saltwater tokenize
  passwordless obsessions possessions cookiecutter_template secretions secreted`)

/** Names of the examples of environments and configurations of seven public projects, labelled by hand. */
const foundSecrets = names(`
  ANTHROPIC_API_KEY AZURE_API_KEY BINGAI_TOKEN CHATGPT_TOKEN GOOGLE_KEY OPENAI_API_KEY ASSISTANTS_API_KEY
  OPENROUTER_API_KEY CREDS_KEY CREDS_IV AZURE_AI_SEARCH_API_KEY DALLE3_API_KEY SERPAPI_API_KEY ZAPIER_NLA_API_KEY
  MEILI_MASTER_KEY OPENAI_MODERATION_API_KEY JWT_SECRET JWT_REFRESH_SECRET DISCORD_CLIENT_SECRET
  OPENID_SESSION_SECRET EMAIL_PASSWORD FIREBASE_API_KEY E2E_USER_PASSWORD POSTGRES_PASSWORD ANON_KEY
  SERVICE_ROLE_KEY DASHBOARD_PASSWORD SECRET_KEY_BASE VAULT_ENC_KEY PG_META_CRYPTO_KEY
  LOGFLARE_PRIVATE_ACCESS_TOKEN S3_PROTOCOL_ACCESS_KEY_ID S3_PROTOCOL_ACCESS_KEY_SECRET SMTP_PASS GOOGLE_SECRET
  SMS_TWILIO_AUTH_TOKEN SMS_TEST_OTP MINIO_ROOT_PASSWORD langfuse_public_key langfuse_secret redis_password
  master_key NEXTAUTH_SECRET SOCIAL_AUTH_GITHUB_KEY ENCRYPTION_SECRET SUPABASE_SERVICE_ROLE_KEY
  EMAIL_SERVER_PASSWORD WOMPI_PRIVATE_KEY WOMPI_EVENTS_SECRET CLOUDINARY_API_SECRET UMAMI_PASSWORD
  GMAIL_APP_PASSWORD VAPID_PRIVATE_KEY CRON_SECRET POSTHOG_KEY SENTRY_DSN STRIPE_SECRET_KEY
  EXPO_PUSH_ACCESS_TOKEN ENCRYPTION_KEY ADMIN_REGISTRATION_KEY CF_R2_SECRET_ACCESS_KEY STAFF_ADMIN_PASSWORD
  RESEND_API_KEY NEXT_PUBLIC_SUPABASE_ANON_KEY NEXT_PUBLIC_STRIPE_PUBLISHABLE_KEY SOCIAL_AUTH_GOOGLE_OAUTH2_SECRET
  CF_R2_ACCESS_KEY_ID SENDGRID_API_KEY`)
const foundPlain = names(`
  APP_TITLE CUSTOM_FOOTER HOST PORT MONGO_URI DOMAIN_CLIENT NO_INDEX DEBUG_LOGGING ENDPOINTS PROXY ANTHROPIC_MODELS
  ANTHROPIC_REVERSE_PROXY AZURE_OPENAI_API_VERSION AZURE_OPENAI_API_INSTANCE_NAME BINGAI_HOST TITLE_CONVO
  OPENAI_SUMMARIZE PLUGIN_MODELS AZURE_AI_SEARCH_INDEX_NAME GOOGLE_CSE_ID SD_WEBUI_URL WOLFRAM_APP_ID SEARCH
  MEILI_HOST BAN_DURATION LOGIN_MAX LOGIN_WINDOW REGISTER_WINDOW MESSAGE_IP_MAX CHECK_BALANCE ALLOW_REGISTRATION
  DISCORD_CLIENT_ID OPENID_ISSUER OPENID_SCOPE OPENID_BUTTON_LABEL EMAIL_SERVICE EMAIL_ENCRYPTION EMAIL_USERNAME
  FIREBASE_AUTH_DOMAIN FIREBASE_MESSAGING_SENDER_ID REDIS_URI USE_REDIS POSTGRES_HOST POOLER_TENANT_ID
  POOLER_MAX_CLIENT_CONN STUDIO_DEFAULT_PROJECT SITE_URL ADDITIONAL_REDIRECT_URLS MAILER_URLPATHS_RECOVERY
  SMTP_ADMIN_EMAIL SMTP_SENDER_NAME ENABLE_ANONYMOUS_USERS SMS_PROVIDER SMS_TEMPLATE SMS_TWILIO_ACCOUNT_SID
  MFA_PHONE_VERIFY_ENABLED GLOBAL_S3_BUCKET REGION PGRST_DB_SCHEMAS DOCKER_SOCKET_LOCATION KONG_HTTP_PORT
  IMGPROXY_ENABLE_WEBP_DETECTION CERTBOT_EMAIL model_name api_base rpm stream_timeout region_name litellm_params
  input_cost_per_second base_model mode health_check_timeout drop_params budget_duration num_retries
  routing_strategy store_model_in_db pass_through_endpoints forward_headers database_connection_pool_limit team_id
  success_callback CLOUDINARY_CLOUD_NAME NEXTAUTH_URL NODE_ENV RATE_LIMIT_WINDOW_MS`)

test.each([
  ['known', knownSecrets, knownPlain],
  ['found', foundSecrets, foundPlain],
])('of 300 names those of secrets are hidden, and no others: %s', (_, secrets, plain) => {
  expect(secrets.filter((name) => !isSecretName(name))).toEqual([])
  expect(plain.filter(isSecretName)).toEqual([])
  expect(knownSecrets.length + knownPlain.length).toBeGreaterThanOrEqual(150)
  expect(foundSecrets.length + foundPlain.length).toBeGreaterThanOrEqual(150)
})

test('amounts and switches are shown under names of secrets, and other texts are hidden', () => {
  const shown = {
    cookies_enabled: 'true',
    max_tokens: '4096',
    SESSION_EXPIRY: '900',
    JWT_EXPIRY: '3600',
    SMS_OTP_LENGTH: '6',
    MFA_TOTP_ENROLL_ENABLED: 'yes',
    FUNCTIONS_VERIFY_JWT: 'false',
    token_limit: 5,
    password_min_length: 12,
    session: true,
    token_ttl: '15m',
  }
  expect(redact(shown)).toEqual(shown)
  const hidden = { cookies_enabled: 'x=1', max_tokens: 'abc', pin: '1234', password: '1234', token: '99' }
  expect(Object.values(redact(hidden))).toEqual([null, null, null, null, null])
})

test('a number is hidden where it may be a secret', () => {
  expect(
    names('pin otp db_pwd passcode SMTP_PASS password secret_number').filter((name) => !hidesNumbers(name)),
  ).toEqual([])
  expect(names('tokens max_password_length keys session_count').filter(hidesNumbers)).toEqual([])
})
