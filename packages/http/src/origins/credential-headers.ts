/** Replace the headers of a request to a program that must not see what opens this server. */
export const withoutCredentials = {
  cookie: undefined,
  authorization: undefined,
  'x-session-api-key': undefined,
  'x-init-api-key': undefined,
  'x-access-token': undefined,
  'x-service-api-key': undefined,
} as const
