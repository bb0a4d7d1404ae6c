/**
 * What the package uses of `node:http`. An `import` of that module reads all of its members, among them
 * getters that load the whole HTTP client of Node, a tenth of the time to start.
 */
export const { Agent, createServer, request, STATUS_CODES } = process.getBuiltinModule('node:http')
