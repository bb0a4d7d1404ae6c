/** Replaces a secret, on the wire and in output. */
export const redactedText = '**********'
