import { expect, test } from 'vitest'
import { findComponent } from './components.js'

test('a clone has no components', () => {
  expect(() => findComponent('browser')).toThrow('A clone has no components')
})
