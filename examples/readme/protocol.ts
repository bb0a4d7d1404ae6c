import { agentServerRoutes, validateEvent } from '@slipway/protocol'

console.log(validateEvent({ kind: 'PauseEvent' })) // []
console.log(validateEvent({ kind: 'PauseEvent', x: 1 }))
// [{ loc: ['x'], msg: 'Extra inputs are not permitted', type: 'extra_forbidden' }]

console.log(agentServerRoutes.searchEvents.query.parse({ limit: '20' })) // { limit: 20, sort_order: 'TIMESTAMP' }
