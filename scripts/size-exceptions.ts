/**
 * Folders, files and functions that are larger than `maxSizes` of check-sizes.ts, with the size that each may
 * have. The list only shrinks.
 */
export const sizeExceptions: Readonly<Record<string, number>> = {}
