/** What stands in the place of a secret, on the wire and in whatever a value is printed to. */
export const redactedText = '**********'
