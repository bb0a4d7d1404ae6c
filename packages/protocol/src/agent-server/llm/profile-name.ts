import * as z from 'zod'

/** The name of a profile: 1 to 64 letters, digits, dots, underscores and hyphens, a letter or digit first. */
export const profileName = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/,
    'The name of a profile is 1 to 64 letters, digits, dots, underscores and hyphens, a letter or digit first',
  )
