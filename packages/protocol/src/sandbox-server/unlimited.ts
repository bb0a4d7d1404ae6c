/** The limit of a user or an organisation without one. */
export const unlimited = -1
