/** It cannot be billed, now or later; the message says why. */
export class BadOrder extends Error {}

/** An order from a record's value: `{ id, cents }`. Throws BadOrder. */
export function parse(data) {
  let found
  try {
    found = JSON.parse(data ?? '')
  } catch {
    throw new BadOrder('not JSON')
  }
  if (typeof found?.id !== 'string' || found.id === '') {
    throw new BadOrder('no id')
  }
  if (!Number.isInteger(found.cents) || found.cents <= 0) {
    throw new BadOrder('no positive number of cents')
  }
  return { id: found.id, cents: found.cents }
}
