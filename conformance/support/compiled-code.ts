const { NODE_COMPILE_CACHE } = process.env

/** The compiled code of a run of tests, for programs with a separate home directory, whose cache is empty. */
export const compiledCode: Readonly<Record<string, string>> =
  NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }
