import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BadOrder, parse } from '../src/order.js'

test('an order', () => {
  assert.deepEqual(parse('{"id": "a", "cents": 5}'), { id: 'a', cents: 5 })
})

for (const [data, reason] of [
  [undefined, 'not JSON'],
  ['{', 'not JSON'],
  ['[]', 'no id'],
  ['{"cents": 5}', 'no id'],
  ['{"id": "a", "cents": 0}', 'no positive number of cents'],
]) {
  test(`${data} cannot be billed`, () => {
    assert.throws(() => parse(data), error => error instanceof BadOrder && error.message === reason)
  })
}
