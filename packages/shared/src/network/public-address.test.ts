import { expect, test } from 'vitest'
import { isPublicAddress } from './public-address.ts'

test('addresses of the internet are public, others are not', () => {
  for (const address of ['8.8.8.8', '1.1.1.1', '172.15.0.1', '172.32.0.1', '2606:4700::1111', '2a00:1450::1'])
    expect([address, isPublicAddress(address)]).toEqual([address, true])
  for (const address of [
    ...['0.1.2.3', '10.1.2.3', '100.64.0.1', '127.9.9.9', '169.254.169.254', '172.16.0.1', '192.0.0.8'],
    ...['192.168.1.1', '198.18.0.1', '224.0.0.1', '255.255.255.255', '::', '::1', 'fe80::1', 'fc00::1'],
    ...['::ffff:8.8.8.8', '64:ff9b::808:808', '2002:7f00:1::', '2001::1', '2001:db8::1', 'ff02::1', 'x', ''],
  ])
    expect([address, isPublicAddress(address)]).toEqual([address, false])
})
