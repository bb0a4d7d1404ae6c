/**
 * How the command is typed where it runs: `npx slipway` in a clone, where the sources are TypeScript, and `slipway`
 * where the package is installed: there `npx` would look for a package of that name in the registry.
 */
export const commandName = import.meta.filename.endsWith('.ts') ? 'npx slipway' : 'slipway'
